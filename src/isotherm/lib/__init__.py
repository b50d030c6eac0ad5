"""What every package uses: arguments, optional imports, files, progress, threads, types, the version."""
