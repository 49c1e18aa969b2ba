"""Output formats of findings: text for people; JSON, SARIF, GitHub annotations and JUnit for programs."""
