"""What was compared and tried before something was chosen."""
