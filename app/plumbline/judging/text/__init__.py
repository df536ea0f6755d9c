"""What an answer is made of and how judged answers become scores. Pure: no network, no files, no model."""
