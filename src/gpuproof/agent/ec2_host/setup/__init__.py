"""What a host does before the job starts: wait for the driver, check the GPUs, use local disks, make environments, find other hosts."""
