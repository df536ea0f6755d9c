"""Optional commands built on the service's parts: lab, provider batches, calibration."""
