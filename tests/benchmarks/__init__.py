"""What the hot paths cost, against the controls that show what that is worth. See README.md."""
