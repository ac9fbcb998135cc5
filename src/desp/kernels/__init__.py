"""GPU kernels, imported only where they run: they need Triton, which comes with torch's CUDA builds."""
