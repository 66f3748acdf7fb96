// HDFS in one process: a name node and a data node, until standard input ends. The arguments are a folder and a port.

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        settings.setBoolean("dfs.permissions.enabled", false);
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings)
                .numDataNodes(1).nameNodePort(Integer.parseInt(arguments[1])).build()) {
            cluster.waitActive();
            System.out.println("up " + cluster.getURI());
            System.in.read();
        }
    }
}
