"""The program around the commands: their list, lazy loading, exit codes."""
