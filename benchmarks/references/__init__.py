"""What a programmer would write by hand for one job alone: the measure of all."""
