"""Infrastructure that every package uses: errors, files, registries, processes, devices, provenance."""
