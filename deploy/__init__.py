"""How Bursar is put together and run: settings, the composition root, the command line, the image."""
