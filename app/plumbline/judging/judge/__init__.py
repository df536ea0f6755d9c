"""The judge: questions to a chat model, its replies, and the evidence and controls that they are checked by."""
