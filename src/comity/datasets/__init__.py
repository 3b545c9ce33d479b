"""Files to samples: tables, images, how samples are partitioned among clients."""
