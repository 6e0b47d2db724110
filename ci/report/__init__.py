"""Reports: verdicts from journals, JUnit, the summary for people and machines, and the HTML page."""
