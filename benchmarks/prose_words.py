"""The words that samples of benchmarks are made of. All of a list have as many words, so that sentences are as long."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


ADJECTIVES = _words(
    "old new small large wooden stone northern southern eastern western famous quiet modern public private royal "
    "narrow hidden painted flooded empty crowded central coastal rural ancient grand humble busy tall"
)

THINGS = _phrases(
    "railway bridge, market hall, town library, water mill, ferry terminal, clock tower, grain store, fish market, "
    "village school, city museum, paper factory, harbour wall, canal lock, bell tower, wool exchange, coal mine, "
    "glass works, post office, corn mill, dance hall, music school, sea wall, tram depot, bus station, rose garden, "
    "brick kiln, tea house, silk factory, horse stable, weather station, mountain hut, copper mine, power station, "
    "swimming bath, court house, fire station, salt works, book shop, apple orchard, boat yard"
)

TOWNS = _words(
    "Oxford Bristol Leeds York Norwich Derby Lincoln Durham Exeter Plymouth Dover Lancaster Preston Chester Bath Wells "
    "Cambridge Newcastle Brighton Portsmouth Southampton Nottingham Leicester Coventry Gloucester Worcester Hereford "
    "Stafford Bedford Warwick Winchester Salisbury Canterbury Rochester Dorset Lewes Ripon Windsor Richmond Whitby"
)

AGENTS = _phrases(
    "the city council, a local engineer, the parish church, a wealthy merchant, the county court, a foreign company, "
    "the royal family, a young architect, the workers' union, a retired captain, the national government, "
    "a women's society, the water board, an old farmer, the historical society, a railway company"
)

# Both the past and the participle.
DEEDS = _words("opened restored repaired enlarged rebuilt purchased designed closed painted founded sold renamed")

PARTS = _phrases(
    "narrow windows, heavy doors, public rooms, iron columns, stone steps, painted panels, small chambers, oak beams, "
    "brass lamps, marble statues, wooden benches, steel cables"
)

REASONS = (
    "heavy winter floods had damaged the main road",
    "the price of coal had doubled within months",
    "most families in the valley had no work",
    "a great fire had destroyed the older building",
    "the new railway brought many travellers from London",
    "doctors had warned the people about dirty water",
    "the harvest had failed for the third time",
    "a famous painter had once lived close by",
    "ships could no longer enter the shallow harbour",
    "the army needed more room for its horses",
    "the school was far too small for everyone",
    "a law from the capital had demanded it",
)

SERVICES = (
    "serves more than four nearby villages",
    "gives work to many young people",
    "draws large crowds from other towns",
    "holds a market of fresh food",
    "keeps the records of old families",
    "offers free lessons in the evening",
    "supplies clean water to poor homes",
    "shows paintings by artists of today",
    "shelters fishing boats from bad weather",
    "houses a small school of music",
)

# A sentence of a context in 23 words, and the same in 24 others; 24 to 34 tokens each.
FORMS = (
    (
        "in {year} {agent} {deed} the {adjective} {thing} in {town} again, mostly because {reason}.",
        "the {thing} in {town} was once {deed} by {agent} back in {year}, since {reason}.",
    ),
    (
        "the {thing} in {town}, which {agent} {deed} in {year}, has {number} {parts} and {service}.",
        "with its {number} {parts}, the {thing} of {town} {service}, and {agent} {deed} it in {year}.",
    ),
    (
        "some {number} visitors came to the {thing} in {town} in the year {year}, because {reason}.",
        "about {number} people visited the {thing} of {town} in {year}, and the reason was that {reason}.",
    ),
    (
        "the {adjective} {thing} in {town} {service}, but {agent} closed it for {number} days in {year}.",
        "the {thing} at {town}, once shut by {agent} for {number} days in {year}, {service} each spring.",
    ),
)

OPENINGS = ("", "Records show that ", "It is known that ", "We read that ", "It seems that ")
