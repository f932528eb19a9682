"""The report of a campaign: one HTML file from what its folder holds. `report.write_report` is the way in."""
