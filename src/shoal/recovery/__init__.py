"""What was lost? Recovery protocols that fetch it from a peer that has it, one file each."""
