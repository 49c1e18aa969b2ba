"""GPU memory, planned from a trace of the script: rules MEM."""
