"""The command `supple`: one file a command."""
