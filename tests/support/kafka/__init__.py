"""A Kafka broker and a schema registry on this machine, the jars they need, and containers that run beside them."""
