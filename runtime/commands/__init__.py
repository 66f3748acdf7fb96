"""The work behind the verbs of the command line, each as a function that raises a FluvialError."""
