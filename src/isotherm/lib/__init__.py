"""What every package uses: arguments, optional imports, files, progress, types, the version."""
