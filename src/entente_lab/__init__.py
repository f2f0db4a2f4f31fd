"""What researchers and the demo use: benchmarks, attacks, simulated companies."""
