"""Retrievers that ask an Elasticsearch or OpenSearch server, by what is asked of it: `query` tells which."""

from typing import Annotated

from pydantic import Field

from plumbline.extras.lab.retrievers.elastic_keyword import ElasticFields, ElasticPhrases
from plumbline.extras.lab.retrievers.elastic_knn import ElasticKnn
from plumbline.extras.lab.retrievers.elastic_sparse import ElasticSparse

ElasticRetriever = Annotated[ElasticFields | ElasticPhrases | ElasticSparse | ElasticKnn, Field(discriminator="query")]
