"""Parts that several engines share: base of simulators, their states, stage histories."""
