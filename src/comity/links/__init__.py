"""Links that exist for minutes a day: contact plans, and what a federation can do with them.

`contacts` reads a plan, `orbits` makes one from orbital elements, `timetable` turns a plan and the
sizes of messages into rounds before anything is trained, `windows` does so for federations without
a server. Nothing here trains or knows a model.
"""
