"""The page of `comity explore`: documents of finished and running work, and a server for one user.

Documents are plain JSON, made once per item. The page itself is in ``page/``: ES modules that need
no build step. Nothing here executes or changes a run.
"""
