"""What the invented suppliers sell: articles by trade, described in the language of the supplier's country.

An article is (description, unit, price, price basis, reduced rate?): units are UN/ECE Rec 20 codes, prices are in the
currency of the country, per `price basis` units. The first seven articles of a trade go into ordinary orders; the last
five are kept for invoices that must be told by their content alone.
"""

# ruff: noqa: RUF001 - articles in their own typography

from dataclasses import dataclass
from decimal import Decimal

ORDINARY_ARTICLES = 7


@dataclass(frozen=True)
class Article:
    """One article of a price list; `price` is per `basis` units."""

    description: str
    unit: str
    price: Decimal
    basis: Decimal
    reduced: bool


@dataclass(frozen=True)
class Trade:
    """A branch of business in one country, with the words that its firms' names are made of."""

    country: str
    prefix: str
    suffix: str
    claim: str
    articles: tuple[Article, ...]


def _articles(*rows: tuple[str, str, str, int] | tuple[str, str, str, int, bool]) -> tuple[Article, ...]:
    return tuple(
        Article(row[0], row[1], Decimal(row[2]), Decimal(row[3]), len(row) > 4 and bool(row[4])) for row in rows
    )


TRADES: tuple[Trade, ...] = (
    Trade(
        "DE",
        "",
        "Befestigungstechnik GmbH",
        "Schrauben · Dübel · Beschläge",
        _articles(
            ("Sechskantschraube M8×40, verzinkt", "C62", "18.40", 100),
            ("Unterlegscheibe 8,4 mm, Edelstahl A2", "C62", "6.95", 100),
            ("Schwerlastdübel 12×100", "C62", "1.28", 1),
            ("Gewindestange M10, Länge 1 m", "C62", "3.75", 1),
            ("Montageschiene 41/41, gelocht", "MTR", "7.60", 1),
            ("Schraubensicherung mittelfest, 50 ml", "C62", "11.90", 1),
            ("Winkelverbinder 90×90, feuerverzinkt", "C62", "0.0875", 1),
            ("Spannschloss M12 mit Öse", "C62", "8.35", 1),
            ('Rohrschelle 2" mit Gummieinlage', "C62", "2.15", 1),
            ("Blindniete 4,8×12, Alu/Stahl", "C62", "4.20", 100),
            ("Ankerplatte 200×200×10", "C62", "14.80", 1),
            ("Mörtelpatrone für Verbundanker", "C62", "5.45", 1),
        ),
    ),
    Trade(
        "DE",
        "Bürohaus",
        "KG",
        "Alles für Büro und Werkstatt seit 1968",
        _articles(
            ("Kopierpapier A4, 80 g/m², Karton zu 2.500 Blatt", "XCT", "19.90", 1),
            ("Ordner breit, 80 mm, grün", "C62", "2.35", 1),
            ("Fachbuch Lagerlogistik, 4. Auflage", "C62", "39.80", 1, True),
            ("Tonerkassette schwarz, 10.000 Seiten", "C62", "74.50", 1),
            ("Kugelschreiber blau, Großraummine", "C62", "45.00", 100),
            ("Filterkaffee gemahlen, 500 g", "C62", "6.20", 1, True),
            ("Schreibtischlampe LED, höhenverstellbar", "C62", "58.90", 1),
            ("Aktenvernichter, Sicherheitsstufe P-4", "C62", "189.00", 1),
            ("Flipchartblock, 20 Blatt, unliniert", "C62", "4.75", 1),
            ("Zeitschrift Einkauf & Materialwirtschaft, Jahresbezug", "C62", "118.00", 1, True),
            ("Bürostuhl mit Netzrücken", "C62", "219.00", 1),
            ("Whiteboard-Marker, Satz mit vier Farben", "SET", "5.60", 1),
        ),
    ),
    Trade(
        "FR",
        "Établissements",
        "Chimie SARL",
        "Produits d’entretien et de laboratoire",
        _articles(
            ("Acide citrique anhydre, sac de 25 kg", "KGM", "245.00", 100),
            ("Éthanol 96 %, bidon", "LTR", "3.42", 1),
            ("Dégraissant alcalin concentré", "LTR", "2.85", 1),
            ("Gants nitrile bleus, boîte de 100", "XBX", "7.90", 1),
            ("Solution tampon pH 7, flacon de 500 ml", "C62", "9.65", 1),
            ("Eau déminéralisée", "LTR", "0.3850", 1, True),
            ("Papier filtre plissé Ø 185 mm", "C62", "12.30", 100),
            ("Bécher gradué 250 ml, verre borosilicaté", "C62", "4.15", 1),
            ("Désinfectant de surfaces prêt à l’emploi", "LTR", "4.90", 1),
            ("Hypochlorite de sodium 13 %", "KGM", "88.00", 100),
            ("Lunettes de protection antibuée", "C62", "6.75", 1),
            ("Éprouvette jaugée 100 ml", "C62", "8.20", 1),
        ),
    ),
    Trade(
        "FR",
        "Maison",
        "Emballages SAS",
        "Cartons, films et palettes",
        _articles(
            ("Caisse carton double cannelure 400×300×300", "C62", "118.00", 100),
            ("Film étirable 23 µm, rouleau", "XRO", "8.45", 1),
            ("Palette Europe 1200×800, traitée", "C62", "13.90", 1),
            ("Ruban adhésif havane 66 m", "XRO", "1.35", 1),
            ("Papier bulle largeur 1 m", "MTR", "0.6200", 1),
            ("Étiquettes « fragile », rouleau de 500", "XRO", "9.80", 1),
            ("Guide de l’expédition, édition brochée", "C62", "24.00", 1, True),
            ("Cornière de protection 35 mm", "MTR", "0.5450", 1),
            ("Sac kraft à fond plat", "C62", "32.50", 100),
            ("Feuillard polyester 16 mm", "MTR", "14.20", 100),
            ("Caisse-palette pliable", "C62", "41.00", 1),
            ("Dévidoir manuel pour film", "C62", "27.60", 1),
        ),
    ),
    Trade(
        "IT",
        "Officine",
        "S.r.l.",
        "Meccanica di precisione e utensileria",
        _articles(
            ("Cuscinetto radiale a sfere 6204", "C62", "4.85", 1),
            ("Vite a brugola M6×20, brunita", "C62", "9.40", 100),
            ("Olio idraulico ISO 46", "LTR", "3.95", 1),
            ("Guarnizione O-ring 40×3, NBR", "C62", "21.00", 100),
            ("Fresa in metallo duro Ø 10", "C62", "38.50", 1),
            ("Manuale di officina, edizione rilegata", "C62", "28.00", 1, True),
            ("Cinghia trapezoidale A 43", "C62", "6.70", 1),
            ('Raccordo rapido 1/4" per aria compressa', "C62", "5.25", 1),
            ("Grasso al litio, cartuccia da 400 g", "C62", "4.10", 1),
            ("Disco abrasivo Ø 125, grana 60", "C62", "62.00", 100),
            ("Calibro digitale 150 mm", "C62", "47.90", 1),
            ("Molla a compressione 12×60", "C62", "0.7850", 1),
        ),
    ),
    Trade(
        "IT",
        "Ceramiche",
        "S.p.A.",
        "Superfici in gres porcellanato",
        _articles(
            ("Piastrella gres 60×60, grigio perla", "MTK", "21.40", 1),
            ("Battiscopa coordinato 8×60", "MTR", "6.90", 1),
            ("Collante cementizio, sacco da 25 kg", "C62", "14.30", 1),
            ("Stucco per fughe, grigio", "KGM", "2.75", 1),
            ("Distanziatori 2 mm", "C62", "3.60", 100),
            ("Mosaico su rete 30×30", "MTK", "48.00", 1),
            ("Catalogo campioni rilegato", "C62", "35.00", 1, True),
            ("Profilo di chiusura in alluminio", "MTR", "5.85", 1),
            ("Lastra grande formato 120×240", "MTK", "69.00", 1),
            ("Primer consolidante", "LTR", "7.20", 1),
            ("Livellante autolivellante, sacco da 25 kg", "C62", "18.60", 1),
            ("Piletta a pavimento con griglia", "C62", "33.40", 1),
        ),
    ),
    Trade(
        "NL",
        "",
        "Verlichting B.V.",
        "Licht voor hal, kas en kantoor",
        _articles(
            ("LED-paneel 60×60, 4000 K", "C62", "39.50", 1),
            ("Noodverlichtingsarmatuur met batterij", "C62", "64.00", 1),
            ("Installatiekabel 3×1,5 mm²", "MTR", "78.00", 100),
            ("Bewegingsmelder 360°", "C62", "28.75", 1),
            ("Handboek lichttechniek, gebonden", "C62", "44.00", 1, True),
            ("Montageprofiel aluminium, 2 m", "C62", "17.20", 1),
            ("Kabelgoot 60×100, verzinkt", "MTR", "9.35", 1),
            ("Dimmer universeel 5–150 W", "C62", "31.90", 1),
            ("Halstraler 150 W, IP65", "C62", "112.00", 1),
            ("Lasklem 3-voudig", "C62", "26.50", 100),
            ("Buitenlantaarn antraciet", "C62", "83.40", 1),
            ("Schakelmateriaal wit, set voor één ruimte", "SET", "22.60", 1),
        ),
    ),
    Trade(
        "NL",
        "Kwekerij",
        "Groothandel B.V.",
        "Planten en substraten, rechtstreeks van de kas",
        _articles(
            ("Ficus benjamina, potmaat 21 cm", "C62", "12.90", 1, True),
            ("Potgrond universeel, zak van 40 l", "C62", "5.20", 1),
            ("Orchidee wit, twee takken", "C62", "8.45", 1, True),
            ("Kunststof pot Ø 17 cm, terracotta", "C62", "48.00", 100),
            ("Meststof NPK 12-10-18", "KGM", "96.00", 100),
            ("Kokosvezelplaat 100×15", "C62", "1.85", 1),
            ("Lavendel in tray van zes", "SET", "7.60", 1, True),
            ("Druppelslang 16 mm", "MTR", "0.4600", 1),
            ("Bamboestok 120 cm", "C62", "19.50", 100),
            ("Olijfboom, stamomtrek 20 cm", "C62", "64.00", 1, True),
            ("Plantenbak cortenstaal", "C62", "138.00", 1),
            ("Geëxpandeerde kleikorrels, zak van 50 l", "C62", "11.40", 1),
        ),
    ),
    Trade(
        "GB",
        "",
        "Industrial Supplies Ltd",
        "Workwear, safety and site equipment",
        _articles(
            ("Hi-vis waistcoat, class 2, size L", "C62", "4.60", 1),
            ("Safety boots S3, size 43", "PR", "52.00", 1),
            ("Cut-resistant gloves, level D", "PR", "3.85", 1),
            ("Cable ties 300 mm, black", "C62", "2.90", 100),
            ("Site handbook, bound edition", "C62", "18.50", 1, True),
            ("Extension reel 25 m, 13 A", "C62", "36.40", 1),
            ("Spill kit 50 litre", "SET", "68.00", 1),
            ("Traffic cone 750 mm", "C62", "9.75", 1),
            ("Dust mask FFP3 with valve", "C62", "115.00", 100),
            ("First-aid refill, workplace medium", "SET", "21.30", 1),
            ("Ratchet strap 50 mm × 8 m", "C62", "12.60", 1),
            ("Platform trolley, 300 kg", "C62", "94.50", 1),
        ),
    ),
    Trade(
        "GB",
        "",
        "Paper & Print Ltd",
        "Print, stationery and books since 1951",
        _articles(
            ("Copier paper A4, box of five reams", "XBX", "16.80", 1),
            ("Printed leaflet A5, 170 gsm", "C62", "42.00", 1000),
            ("Hardback notebook A5, ruled", "C62", "3.95", 1),
            ("Warehouse safety manual", "C62", "27.50", 1, True),
            ("Thermal labels 100×150, roll", "XRO", "8.70", 1),
            ("Envelope DL, self-seal", "C62", "19.40", 1000),
            ("Desk calendar, printed to order", "C62", "5.35", 1),
            ("Lever arch file, navy", "C62", "2.45", 1),
            ("Roller banner 850×2000", "C62", "58.00", 1),
            ("Business cards, matt laminated", "C62", "64.00", 1000),
            ("Laminating pouches A4", "C62", "11.20", 100),
            ("Map of delivery zones, folded", "C62", "6.90", 1, True),
        ),
    ),
    Trade(
        "CH",
        "",
        "Messtechnik AG",
        "Präzision aus der Ostschweiz",
        _articles(
            ("Drucktransmitter 0–10 bar, G½", "C62", "164.00", 1),
            ("Temperaturfühler Pt100, Kabel 2 m", "C62", "48.50", 1),
            ("Kalibrierschein ab Werk", "C62", "85.00", 1),
            ("Signalkabel 4×0,5 mm², geschirmt", "MTR", "235.00", 100),
            ("Durchflussmesser DN 25", "C62", "612.00", 1),
            ("Messumformer für Hutschiene", "C62", "139.00", 1),
            ("Dichtungssatz für Fühler", "SET", "7.35", 1),
            ("Präzisionswaage 3200 g / 0,01 g", "C62", "890.00", 1),
            ("Schutzrohr Edelstahl, 200 mm", "C62", "36.80", 1),
            ("Pufferakku für Datenlogger", "C62", "27.90", 1),
            ("Datenlogger, acht Kanäle", "C62", "445.00", 1),
            ("Wandhalter für Messumformer", "C62", "0.9500", 1),
        ),
    ),
)
