"""The words on the wire, shared by the api and the client: pydantic only."""
