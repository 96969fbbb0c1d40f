"""Dead letters as people deal with them: found, grouped, counted, tried again, settled."""
