"""What a stack's file may say, as frozen models that every platform shares."""
