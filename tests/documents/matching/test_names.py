"""Variants of a company's name share a core that differs between companies."""

# ruff: noqa: RUF001 - names in other alphabets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.documents.matching.names import name

NAME_VARIANTS = [
    ["Brede Werke GmbH", "Brede Werke G.m.b.H.", "BREDE WERKE GESELLSCHAFT MBH",
     "Brede Werke Ges. m. b. H.",  # codespell:ignore ges
     "Brede Werke Gesellschaft mit beschränkter Haftung", "Brede Werke gesellschaft mit beschraenkter haftung"],
    ["Brede GmbH & Co. KG", "Brede GmbH&Co.KG", "Brede GmbH + Co KG", "BREDE GMBH & CO. K.G.", "Brede AG & Co. KG"],
    ["Brede Handelsgesellschaft mbH", "Brede Handels-GmbH", "Brede Handelsges.m.b.H.", "Brede HandelsGmbH"],
    ["Brede e.K.", "Brede e. K.", "Brede e.Kfm.", "Brede eingetragener Kaufmann"],
    ["Brede UG (haftungsbeschränkt)", "Brede UG (haftungsbeschraenkt)", "Brede UG"],
    ["Charenne S.à r.l.", "Charenne SARL", "SARL Charenne", "Charenne, société à responsabilité limitée"],
    ["Charenne S.A.S.", "Charenne SAS", "Charenne S. A. S.", "Charenne société par actions simplifiée"],
    ["Vandaele SA/NV", "Vandaele N.V.", "VANDAELE NV", "Vandaele naamloze vennootschap"],
    ["Rossi S.p.A.", "Rossi SpA", "ROSSI S. P. A.", "Rossi Società per Azioni"],
    ["Rossi & C. S.n.c.", "Rossi e C. snc", "Rossi snc"],
    ["Talleres Ibarra, S.L.U.", "TALLERES IBARRA SLU", "Talleres Ibarra Sociedad Limitada Unipersonal"],
    ["Ferreira Lda.", "FERREIRA, LDA", "Ferreira - Sociedade por Quotas"],
    ["Harrow Sp. z o.o.", "Harrow sp.z o.o.", "HARROW SP. Z O. O.", "Harrow spółka z ograniczoną odpowiedzialnością"],
    ["Novák s.r.o.", "Novák, spol. s r.o.", "NOVAK S. R. O.", "Novák společnost s ručením omezeným"],
    ["Škoda a.s.", "SKODA A. S.", "Škoda akciová společnost"],
    ["Petrović d.o.o.", "PETROVIC D. O. O.", "Petrović društvo s ograničenom odgovornošću"],
    ["Szabó Kft.", "SZABO KFT", "Szabó Korlátolt Felelősségű Társaság"],
    ["Popescu S.R.L.", "Popescu srl", "Popescu Societate cu Răspundere Limitată"],
    ["Møller A/S", "MØLLER AS", "Møller Aktieselskab"],
    ["Møller ApS", "MOLLER APS", "Møller Anpartsselskab"],
    ["Virtanen Oy Ab", "Virtanen Oy", "Virtanen osakeyhtiö"],
    ["Lindqvist AB", "Lindqvist Aktiebolag"],
    ["Tamm OÜ", "Tamm Osaühing", "OÜ Tamm"],
    ["Bērziņš SIA", "SIA „Bērziņš“", "Bērziņš Sabiedrība ar ierobežotu atbildību"],
    ["UAB „Kazlauskas“", "Kazlauskas, UAB", "Uždaroji akcinė bendrovė „Kazlauskas“"],
    ["ООО «Ромашка»", "OOO Romashka", "Общество с ограниченной ответственностью «Ромашка»", "Romashka, OOO"],
    ["ТОВ «Ромашка»", "TOV Romashka", "Товариство з обмеженою відповідальністю «Ромашка»"],
    ["АО «Тандер»", "Акционерное общество «Тандер»", "Tander JSC"],
    ["Ромашка ЕООД", "Romashka EOOD", "Ромашка еднолично дружество с ограничена отговорност"],
    ["Παπαδόπουλος Α.Ε.", "ΠΑΠΑΔΟΠΟΥΛΟΣ ΑΕ", "Papadopoulos A.E.", "Papadopoulos AE", "Παπαδόπουλος Ανώνυμη Εταιρεία"],
    ["Yıldız San. ve Tic. Ltd. Şti.", "YILDIZ SANAYİ VE TİCARET LİMİTED ŞİRKETİ", "Yildiz Ltd. Sti."],
    ["Yıldız A.Ş.", "Yildiz AS", "Yıldız Anonim Şirketi"],
    ["Smith & Jones Ltd", "Smith and Jones Limited", "SMITH & JONES LTD."],
    ["Harlow Steel Pty Ltd", "Harlow Steel (Pty) Ltd", "Harlow Steel Proprietary Limited"],
    ["Sharma Tools Pvt. Ltd.", "Sharma Tools Private Limited", "SHARMA TOOLS PVT LTD"],
    ["Tan Trading Pte. Ltd.", "Tan Trading Pte Ltd"],
    ["Ismail Sdn. Bhd.", "Ismail Sendirian Berhad"],
    ["Acme Inc.", "ACME, Incorporated", "Acme Inc"],
    ["Al Noor L.L.C.", "Al Noor LLC", "Al Noor Limited Liability Company"],
    ["Souza Ltda.", "SOUZA LTDA - ME", "Souza Limitada"],
    ["Souza S/A", "Souza S.A.", "Souza Sociedade Anônima"],
    ["Ibarra, S.A. de C.V.", "IBARRA SA DE CV", "Ibarra Sociedad Anónima de Capital Variable"],
    ["Ibarra S. de R.L. de C.V.", "IBARRA S DE RL DE CV"],
    ["株式会社日立", "日立株式会社", "㈱日立", "(株)日立", "日立（株）"],
    ["Hitachi K.K.", "Hitachi Kabushiki Kaisha", "Hitachi Kabushiki-Gaisha"],
    ["삼성전자 주식회사", "삼성전자(주)", "주식회사삼성전자", "㈜삼성전자"],
    ["华为技术有限公司", "华为技术有限责任公司"],
    ["Huawei Jishu Youxian Gongsi", "Huawei Jishu Co., Ltd."],
    ['כרמל תעשיות בע"מ', "כרמל תעשיות בע״מ", "כרמל תעשיות"],
    ["النور ش.م.م", "شركة النور ش.م.م.", "النور"],
    ["Công ty TNHH Hòa Bình", "HOA BINH CO., LTD", "Công ty Cổ phần Hòa Bình"],
    ["J.A. Meyer KG", "J. A. Meyer KG", "JA Meyer K.G."],
    ["L'Oréal S.A.", "L’ORÉAL SA", "LOREAL S. A."],
    ["Brede GmbH Niederlassung Köln", "Brede GmbH, Zweigniederlassung Zürich", "Brede GmbH NL Kassel",
     "Brede GmbH Werk 2"],
    ["Brede Ltd UK Branch", "Brede Ltd (London Branch)", "Brede Ltd., Branch Office", "Brede Ltd"],
    ["Møller A/S, filial Stockholm", "Møller A/S succ. Lyon", "Møller A/S, organizační složka", "Møller A/S"],
    ["Yıldız A.Ş. İzmir Şubesi", "Yıldız A.Ş."],
    ["トヨタ自動車株式会社 東京支店", "トヨタ自動車"],
    ["Brede GmbH c/o Hartmann AG", "Brede GmbH z. Hd. Frau Meyer", "Brede GmbH, z.Hd. Herrn Kurz",
     "Brede GmbH, Attn: Accounts"],
    ["Brede GmbH, Abteilung Einkauf", "Brede GmbH"],
]  # fmt: skip


@pytest.mark.parametrize("writings", NAME_VARIANTS, ids=lambda writings: writings[0])
def test_variants_of_a_name_share_core_and_key(writings: list[str]) -> None:
    assert {name(text).core for text in writings} == {name(writings[0]).core}
    assert {name(text).key for text in writings} == {name(writings[0]).key}


@pytest.mark.parametrize(
    ("text", "core"),
    [
        ("SIA Abrasives AG", "abrasives sia"),
        ("AS Roma", "as roma"),
        ("A.S. Roma S.p.A.", "as roma"),
        ("NV Energy", "energy nv"),
        ("Ek Trading", "ek trading"),
        ("Casa Sa Nostra Ltd", "casa nostra sa"),
        ("AB InBev", "ab inbev"),
        ("Co Op Foods Ltd", "co foods op"),
        ("Monsters Inc Films", "films inc monsters"),
        ("Inc Research Ltd", "inc research"),
        ("SC Freiburg e.V.", "freiburg sc"),
        ("Limited Brands Inc.", "brands limited"),
        ("Corporation Service Company", "corporation service"),
        ("SAS Institute Inc.", "institute sas"),
        ("PLC Automation Ltd", "automation plc"),
        ("Vitamin C GmbH", "c vitamin"),
        ("Berlin Zoo", "berlin zoo"),
        ("Mazel Tov Deli", "deli mazel tov"),
        ("BV Sportwelt GmbH", "bv sportwelt"),
        ("Astra Sat", "astra sat"),
        ("Fa. Meyer", "meyer"),
        ("Day Spa Ltd", "day spa"),
        ("MTU Aero Engines AG", "aro engines mtu"),
        ("M&S A/S", "m s"),
        ("AG", "ag"),
        ("AG GmbH", "ag"),
        ("Co. KG", "co"),
        ("The Company Ltd", "company"),
        ("S.A.", "sa"),
        ("有限公司", "有限公司"),
    ],
)
def test_words_like_legal_forms_stay_in_the_name(text: str, core: str) -> None:
    assert name(text).core == core


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Stadtwerke Köln GmbH", "Stadtwerke Bonn GmbH"),
        ("Stadtwerke Köln", "Stadtwerke"),
        ("Olive Branch Ltd", "Olive Ltd"),
        ("Branch Metals Ltd", "NL Industries Inc"),
        ("Ex Libris AG", "Libris AG"),
        ("株式会社日立", "株式会社東芝"),
        ("がん株式会社", "かん株式会社"),
        ("삼성전자", "현대전자"),
        ("Bertelsmann Stiftung", "Bertelsmann SE"),
        ("שופרסל", "כרמל"),
    ],
)
def test_different_companies_have_different_cores(first: str, second: str) -> None:
    assert name(first, "Köln").core != name(second, "Bonn").core


@pytest.mark.parametrize(
    ("text", "location", "core"),
    [
        ("Brede Werke GmbH Frankfurt am Main", "Frankfurt am Main", "brede werke"),
        ("Brede Werke, Köln", "Köln", "brede werke"),
        ("Hotel Adler Köln", "Köln", "adler hotel"),
        ("TIL Manchester", "Manchester", "til"),
        ("Brede NL Kassel", "Kassel", "brede"),
        ("Brede Branch Lyon", "Lyon", "brede"),
        ("Köln", "Köln", "koln"),
    ],
)
def test_trailing_place_is_removed_from_longer_names(text: str, location: str, core: str) -> None:
    assert name(text, location).core == core


@pytest.mark.parametrize(
    ("text", "core", "rest"),
    [
        ("Brede GmbH t/a Autohaus Nord", "brede", {"autohaus nord"}),
        ("Max Müller trading as Brede Bau", "max muller", {"bau brede"}),
        ("Brede LLC d/b/a Steel Shop", "brede", {"shop steel"}),
        ("Brede GmbH handelnd unter Autohaus Nord", "brede", {"autohaus nord"}),
        ("Autohaus Brede, Inh. Max Müller", "autohaus brede", {"max muller"}),  # codespell:ignore inh
        ("Brede GmbH (vormals Hartmann AG)", "brede", {"hartmann"}),
        ("Brede (formerly Hartmann) Ltd", "brede", {"hartmann"}),
        ("Brede S.p.A. (ex Rossi S.r.l.)", "brede", {"rossi"}),
        ("Brede aka Hartmann, aka Rossi, aka Nord", "brede", {"hartmann", "rossi", "nord"}),
        ("Brede Ltd, London Branch, t/a Steel Shop", "brede", {"shop steel"}),
        ("AB Volvo", "ab volvo", {"volvo"}),
        ("Brede AG Österreich", "ag brede osterreich", {"brede osterreich"}),
        ("Casa Sa Nostra Ltd", "casa nostra sa", set()),
        ("S.C. Popescu S.R.L.", "popescu sc", {"popescu"}),
        ("SIA Abrasives AG", "abrasives sia", {"abrasives"}),
        ("SIA Abrasives", "abrasives", {"abrasives sia"}),
        ("Brede GmbH c/o Hartmann AG", "brede", set()),
        ("c/o Hartmann AG", "hartmann", set()),
        ("Brede GmbH", "brede", set()),
    ],
)
def test_aliases_are_separated_from_the_core(text: str, core: str, rest: set[str]) -> None:
    parsed = name(text)
    assert parsed.core == core
    assert set(parsed.aliases) == rest


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Brede GmbH", "limited"), ("Brede GmbH & Co. KG", "partners"), ("Brede GmbH & Co. KGaA", "stock"),
        ("Brede AG", "stock"), ("Brede plc", "limited"), ("Brede LLP", "partners"), ("Brede e.K.", "trader"),
        ("Brede eG", "cooperative"), ("Brede e.V.", "association"), ("Bertelsmann Stiftung", "foundation"),
        ("Стройка ООО", "limited"), ("ИП Иванов", "trader"), ("Møller I/S", "partners"), ("Lindqvist HB", "partners"),
        ("株式会社日立", "stock"), ("有限会社山田", "limited"), ("Brede", None), ("AG", None), ("AG GmbH", "limited"),
    ],
)  # fmt: skip
def test_legal_form_is_classified(text: str, form: str | None) -> None:
    assert name(text).form == form


def test_initials_like_a_legal_form_become_the_core() -> None:
    parsed = name("SCE Reading", "Reading")
    assert (parsed.core, parsed.form) == ("sce", None)


@pytest.mark.parametrize(
    ("spelling", "romanized"),
    [
        ("Çağlayan Şeker", "Caglayan Seker"), ("Țiriac Știință", "Tiriac Stiinta"), ("Gąska Źrebię", "Gaska Zrebie"),
        ("Třešně Měď", "Tresne Med"), ("Őrség Fűtő", "Orseg Futo"), ("Þórður Æðey", "Thordur Adey"),
        ("Đà Nẵng Hưởng", "Da Nang Huong"), ("Ħal Għaxaq", "Hal Ghaxaq"), ("Ελευθερίου", "Eleftheriou"),
        ("Μπακάλης", "Bakalis"), ("Århus Åby", "Aarhus Aaby"),
    ],
)  # fmt: skip
def test_other_alphabets_are_romanized(spelling: str, romanized: str) -> None:
    assert name(spelling).core == name(romanized).core


@given(st.text(min_size=1, max_size=60))
def test_name_with_ascii_letter_or_digit_has_core(text: str) -> None:
    parsed = name(text)
    assert name(text) == parsed
    assert bool(parsed.core) == bool(parsed.key)
    assert parsed.core not in parsed.aliases
    if any(letter.isascii() and letter.isalnum() for letter in text):
        assert parsed.core


_WORDS = [
    "ag", "gmbh", "co", "&", "kg", "sa", "nv", "(", ")", ",", "brede", "nord", "branch", "t/a", "vormals", "e", "y",
    "sia", "limited", "the",
]  # fmt: skip


@given(st.lists(st.sampled_from(_WORDS)))
def test_name_with_any_word_has_a_core(words: list[str]) -> None:
    parsed = name(" ".join(words))
    assert bool(parsed.core) == any(word not in {"&", "(", ")", ","} for word in words)
