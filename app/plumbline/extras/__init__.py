"""Optional commands built on the service's parts: lab, clusters, provider batches, calibration."""
