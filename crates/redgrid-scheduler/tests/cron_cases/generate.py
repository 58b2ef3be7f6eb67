"""Writes cases.txt: due times of cron patterns, by an implementation that shares nothing with the crate.

It looks at each second or minute of a window, asks the zone data of Python for the wall-clock time, and
follows Vixie cron's program: how far has the clock moved since the last look?

    pip install tzdata
    PYTHONTZPATH= python3 generate.py > cases.txt

An empty PYTHONTZPATH makes Python use the data of the package `tzdata`, and not those of the system.
"""

from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from zoneinfo import ZoneInfo
import calendar

LONGEST_JUMP = timedelta(hours=3)
NAMES = {
    4: dict(zip("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(), range(1, 13))),
    5: dict(zip("SUN MON TUE WED THU FRI SAT".split(), range(7))),
}
LIMITS = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7), (1970, 2100)]

# A zone, and a time of UTC just before its clock jumps. All are in the past, so no country can still change them.
JUMPS = [
    # Forward, into summer.
    ("Europe/Berlin", "2024-03-31T00:59"),
    ("Europe/London", "2024-03-31T00:59"),
    ("America/New_York", "2024-03-10T06:59"),
    ("America/Sao_Paulo", "2018-11-04T02:59"),
    ("America/Havana", "2024-03-10T04:59"),
    ("America/Nuuk", "2024-03-31T00:59"),
    ("America/St_Johns", "2010-03-14T03:30"),
    ("Asia/Beirut", "2022-03-26T21:59"),
    ("Asia/Tehran", "2022-03-21T20:29"),
    ("Africa/Cairo", "2023-04-27T21:59"),
    ("Africa/Casablanca", "2024-04-14T01:59"),
    ("Australia/Lord_Howe", "2023-09-30T15:29"),
    ("Pacific/Chatham", "2023-09-23T13:59"),
    ("Antarctica/Troll", "2024-03-31T00:59"),
    # Back, into winter.
    ("Europe/Berlin", "2024-10-27T00:59"),
    ("Europe/London", "2024-10-27T00:59"),
    ("America/New_York", "2024-11-03T05:59"),
    ("America/Sao_Paulo", "2018-02-18T01:59"),
    ("America/Havana", "2023-11-05T04:59"),
    ("America/Nuuk", "2024-10-27T00:59"),
    ("America/St_Johns", "2010-11-07T02:30"),
    ("Asia/Beirut", "2022-10-29T20:59"),
    ("Asia/Tehran", "2021-09-21T19:29"),
    ("Africa/Cairo", "2023-10-26T20:59"),
    ("Africa/Casablanca", "2024-03-10T01:59"),
    ("Australia/Lord_Howe", "2024-04-06T14:59"),
    ("Pacific/Chatham", "2024-04-06T13:59"),
    ("Antarctica/Troll", "2024-10-27T00:59"),
    # Once, for another reason: half an hour, three hours, a day.
    ("Asia/Pyongyang", "2018-05-04T14:59"),
    ("America/Caracas", "2016-05-01T06:59"),
    ("Antarctica/Casey", "2010-03-04T14:59"),
    ("Antarctica/Casey", "2011-10-27T17:59"),
    ("Pacific/Apia", "2011-12-30T09:59"),
    ("Pacific/Fakaofo", "2011-12-30T10:59"),
]

# Patterns in a calendar: zone, pattern, from, to. `q:` marks those of Quartz.
CALENDAR = [
    ("UTC", "0 12 * * *", "2024-02-27", "2024-03-02"),
    ("UTC", "0 12 L * *", "2023-12-01", "2024-06-01"),
    ("UTC", "0 12 LW * *", "2024-01-01", "2024-12-31"),
    ("UTC", "0 9 15W * *", "2024-01-01", "2024-12-31"),
    ("UTC", "0 9 1W * *", "2024-01-01", "2024-12-31"),
    ("UTC", "0 9 31W * *", "2024-01-01", "2024-12-31"),
    ("UTC", "0 9 * * FRI#2", "2024-01-01", "2024-07-01"),
    ("UTC", "0 9 * * 1#5", "2024-01-01", "2024-12-31"),
    ("UTC", "0 9 * * 5L", "2024-01-01", "2024-07-01"),
    ("UTC", "0 9 13 * +FRI", "2023-01-01", "2025-12-31"),
    ("UTC", "0 9 13 * FRI", "2024-09-01", "2024-10-20"),
    ("UTC", "0 9 1-7 * +MON", "2024-01-01", "2024-06-30"),
    ("UTC", "0 0 29 2 *", "2023-01-01", "2029-01-01"),
    ("UTC", "0 0 31 * *", "2024-01-01", "2024-12-31"),
    ("UTC", "0 0 30 2,4 *", "2024-01-01", "2025-12-31"),
    ("UTC", "0 0 */10 * *", "2024-01-01", "2024-04-01"),
    ("UTC", "0 0 1 */5 *", "2024-01-01", "2025-12-31"),
    ("UTC", "0 0 1 JAN,JUL ?", "2024-01-02", "2025-12-31"),
    ("UTC", "0 0 * * SUN", "2024-01-01", "2024-01-31"),
    ("UTC", "0 0 * * 7", "2024-01-01", "2024-01-31"),
    ("UTC", "0 0 * * 0", "2024-01-01", "2024-01-31"),
    ("UTC", "0 0 * * 5-7", "2024-01-01", "2024-01-31"),
    ("UTC", "30 8 * * MON-FRI", "2024-01-01", "2024-01-16"),
    ("UTC", "0 9-17/4 * * *", "2024-01-01", "2024-01-04"),
    ("UTC", "5,35 0,12 1,15 * *", "2024-01-01", "2024-02-02"),
    ("UTC", "59 23 31 12 *", "2020-01-01", "2024-12-31"),
    ("UTC", "*/7 3 * * *", "2024-01-01", "2024-01-02"),
    ("UTC", "*/20 30 4 * * *", "2024-01-01", "2024-01-03"),
    ("UTC", "15 0 0 1 * *", "2024-01-15", "2024-04-15"),
    ("UTC", "59 59 23 31 12 *", "2023-06-01", "2024-12-31"),
    ("Asia/Kolkata", "0 0 * * *", "2024-01-01", "2024-01-04"),
    ("Asia/Kathmandu", "30 6 * * MON", "2024-01-01", "2024-01-31"),
    ("Pacific/Kiritimati", "0 0 1 * *", "2024-01-01", "2024-04-15"),
    ("Europe/Berlin", "0 3 * * *", "2024-03-29", "2024-04-02"),
    ("Europe/Berlin", "0 3 * * SUN", "2024-03-20", "2024-04-15"),
    ("Europe/Berlin", "30 2 * * *", "2024-03-29", "2024-04-02"),
    ("Europe/Berlin", "30 2 * * *", "2024-10-25", "2024-10-29"),
    ("Europe/Berlin", "30 2 31 3 *", "2023-01-01", "2025-12-31"),
    ("Europe/Berlin", "* 2 31 3 *", "2024-03-01", "2024-04-30"),
    ("Europe/Berlin", "*/20 30 2 31 3 *", "2024-03-30", "2024-04-01"),
    ("Europe/Berlin", "*/20 30 2 27 10 *", "2024-10-26", "2024-10-28"),
    ("America/New_York", "0 0 L * *", "2024-01-01", "2024-12-31"),
    ("UTC", "q:0 0/5 12 * * ?", "2024-01-01", "2024-01-02"),
    ("UTC", "q:0 30 8 ? * 2-6", "2024-01-01", "2024-01-16"),
    ("UTC", "q:0 0 9 ? * 6L", "2024-01-01", "2024-07-01"),
    ("UTC", "q:0 0 9 ? * 6#3", "2024-01-01", "2024-07-01"),
    ("UTC", "q:0 0 0 1 1 ? 2022-2024", "2020-01-01", "2024-12-31"),
    ("Europe/Berlin", "q:0 30 2 * * ?", "2024-03-29", "2024-04-02"),
    ("Europe/Berlin", "q:0 0/30 2 * * ?", "2024-03-29", "2024-04-02"),
]


class Pattern:
    def __init__(self, text):
        self.is_quartz = text.startswith("q:")
        fields = text.removeprefix("q:").split()
        if len(fields) == 5:
            fields = ["0", *fields]
        if len(fields) == 6:
            fields = [*fields, "*"]
        self.has_seconds = fields[0] != "0"
        self.is_fixed = not any("*" in field or self.has_open_step(field) for field in fields[1:3])
        self.second, self.minute, self.hour = (self.numbers(at, fields[at]) for at in range(3))
        self.month, self.year = self.numbers(4, fields[4]), self.numbers(6, fields[6])
        self.days, self.weekdays = fields[3].split(","), fields[5].removeprefix("+").split(",")
        self.needs_both = fields[5].startswith("+")
        self.any_day, self.any_weekday = fields[3] in "*?", fields[5] in "*?"

    def has_open_step(self, field):
        return any("/" in item and "-" not in item for item in field.split(","))

    def value(self, at, text):
        if text in NAMES.get(at, {}):
            return NAMES[at][text]
        return int(text) - (1 if at == 5 and self.is_quartz else 0)

    def numbers(self, at, field):
        least, most = LIMITS[at]
        found = set()
        for item in field.split(","):
            span, _, step = item.partition("/")
            if span in ("*", "?"):
                first, last = least, most
            elif "-" in span:
                first, last = (self.value(at, end) for end in span.split("-"))
            else:
                first = self.value(at, span)
                last = most if step else first
            found.update(range(first, last + 1, int(step or 1)))
        return found

    def is_day(self, wall):
        length = calendar.monthrange(wall.year, wall.month)[1]
        for item in self.days:
            if item == "L" and wall.day == length:
                return True
            if item.endswith("W"):
                wanted = length if item == "LW" else int(item[:-1])
                if wanted <= length and wall.day == self.workday(wall, wanted, length):
                    return True
            elif item != "L" and wall.day in self.numbers(3, item):
                return True
        return False

    def workday(self, wall, day, length):
        """The workday of this month that is nearest to a day."""
        workdays = [at for at in range(1, length + 1) if wall.replace(day=at).weekday() < 5]
        return min(workdays, key=lambda at: (abs(at - day), at))

    def is_weekday(self, wall):
        weekday = wall.isoweekday() % 7
        length = calendar.monthrange(wall.year, wall.month)[1]
        for item in self.weekdays:
            if "#" in item:
                day, number = item.split("#")
                if self.value(5, day) % 7 == weekday and (wall.day - 1) // 7 + 1 == int(number):
                    return True
            elif item.endswith("L"):
                if self.value(5, item[:-1]) % 7 == weekday and wall.day + 7 > length:
                    return True
            elif weekday in {number % 7 for number in self.numbers(5, item)}:
                return True
        return False

    def matches(self, wall):
        if not (wall.second in self.second and wall.minute in self.minute and wall.hour in self.hour):
            return False
        if not (wall.month in self.month and wall.year in self.year):
            return False
        if self.any_day or self.any_weekday or self.needs_both:
            return (self.any_day or self.is_day(wall)) and (self.any_weekday or self.is_weekday(wall))
        return self.is_day(wall) or self.is_weekday(wall)


def due_times(pattern, zone, start, end):
    """Looks at the wall clock at each tick, as cron does."""
    tick = timedelta(seconds=1 if pattern.has_seconds else 60)
    shown = lambda at: at.astimezone(zone).replace(tzinfo=None)
    # Begins a day earlier, to know whether the clock repeats itself at the start.
    at = start - timedelta(days=1)
    last = shown(at)
    done = last  # Fixed times up to this one have had their turn.
    while at < end:
        at += tick
        wall = shown(at)
        jump = wall - last - tick
        last = wall
        if abs(jump) >= LONGEST_JUMP:
            done = wall - tick
        if not pattern.is_fixed:
            is_due = pattern.matches(wall)
        else:
            is_due = False
            while done < wall:
                done += tick
                is_due = is_due or pattern.matches(done)
        if is_due and at > start:
            yield at


def patterns_around(zone, before):
    """Patterns for the times that a jump skips or repeats, and for those beside it; and half a window for each."""
    minute = timedelta(minutes=1)
    old, new = ((at.astimezone(zone)).replace(tzinfo=None) for at in (before, before + minute))
    old += minute
    first, last = min(old, new), max(old, new)
    assert first != last, zone
    middle = first + (last - first) / 2
    middle = middle.replace(second=0)
    fixed = lambda at, days="* * *": f"{at.minute} {at.hour} {days}"
    days, hours = timedelta(days=2), timedelta(hours=3)
    return [
        (fixed(middle), days),
        (fixed(first), days),
        (fixed(last), days),
        (fixed(middle, f"* * {middle.isoweekday() % 7}"), days),
        (f"{middle.minute},{(middle.minute + 10) % 60} {middle.hour},{(middle.hour + 5) % 24} * * *", days),
        ("*/30 * * * *", hours),
        (f"*/15 {middle.hour} * * *", days),
    ]


def rows():
    utc = lambda text: datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
    for name, before in JUMPS:
        for pattern, half in patterns_around(ZoneInfo(name), utc(before)):
            yield name, pattern, utc(before) - half, utc(before) + half
    for name, pattern, start, end in CALENDAR:
        yield name, pattern, utc(start), utc(end)


print("# Written by generate.py, with the zone data of tzdata", version("tzdata"))
print("# zone | pattern (q: is Quartz's) | after | up to | all due times between, on the zone's clock")
for name, pattern, start, end in rows():
    zone = ZoneInfo(name)
    found = due_times(Pattern(pattern), zone, start, end)
    texts = [at.astimezone(zone).isoformat() for at in found]
    print(name, pattern, start.isoformat(), end.isoformat(), " ".join(texts), sep=" | ")
