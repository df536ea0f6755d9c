"""The command line."""

import argparse
from typing import TypeAlias

# To which each file adds its commands; argparse has no public name for it
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
