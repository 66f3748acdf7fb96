"""What goes wrong on purpose: processes that die, disks that fill, folders of others, mistakes planted in the code."""
