"""What a run measures: a table of names, the metrics of Prometheus made from it, a server, and a view for people."""
