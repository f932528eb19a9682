"""SSH keys and signatures in OpenSSH's formats, read more strictly than OpenSSH reads them."""
