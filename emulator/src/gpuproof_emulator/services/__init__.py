"""Operations of other AWS services that moto lacks: log filters, quotas, prices, tags and bucket policies."""
