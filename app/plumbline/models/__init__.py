"""Chat models and sentence encoders: the implementations of the ports of `judging`."""
