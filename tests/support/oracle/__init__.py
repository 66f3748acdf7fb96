"""A plain, slow interpreter of pipelines, in parts: what every engine must write."""
