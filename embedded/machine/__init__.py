"""What the servers need of the machine: Java, jars, ports, processes, directories, secrets."""
