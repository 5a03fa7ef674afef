"""Places where runs are computed: this process, this machine, a Slurm cluster, a Ray cluster."""
