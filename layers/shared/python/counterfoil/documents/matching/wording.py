"""Words around a firm's name that are not its name: legal forms, fillers, what introduces a branch or another name.

Facts of the forms and their abbreviations: ISO 20275 (Entity Legal Forms), edition of 2023-09-28, and common usage for
countries that it does not list. Groups say what kind of firm a form makes, so that `GmbH` and `Ltd` are of one kind and
`GmbH` and `AG` of two: limited, stock, partners, trader, cooperative, association, foundation, public.
"""

# ruff: noqa: RUF001 - names of forms in other alphabets
import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from counterfoil.documents.alphabets import plain


class Role(IntEnum):
    """What a word does in a firm's name, where it stands where such words stand."""

    WORD = 0
    """A word of the name."""
    SURE = 1
    """A legal form, wherever it stands."""
    LAST = 2
    """A legal form at the end; elsewhere a word, or somebody's initials (`AS Roma`, `SIA Abrasives AG`)."""
    KIND = 3
    """States the kind of firm and is part of its name (`Stiftung Warentest`)."""
    FILLER = 4
    """At the end, no name: `& Co.`, `Group`, `in liquidation`."""
    LINK = 5
    """Joins words: `und`, `the`."""
    LETTER = 6
    """Joins the words between which it stands: the `e` of Italian, the `y` of Spanish."""
    BREAK = 7
    """A comma or a bracket."""


class Meaning(NamedTuple):
    """What a word means in a name; the group is that of the legal form."""

    role: Role
    group: str | None = None


# A single word after `-` is a form at the end of a name only. Other words, and all that are written out, are anywhere.
_FORMS = {
    "limited": """
        gmbh; gesmbh; ges mbh; mbh; gesellschaft mbh; gesellschaft mit beschränkter haftung; ggmbh
        gemeinnützige gmbh; gemeinnützige gesellschaft mit beschränkter haftung
        -ug; unternehmergesellschaft
        ltd; -limited; private limited; private limited company; private company limited by shares; limited company
        limited liability company; limited liability co; ltd liability company; ltd liability co; llc; -l3c
        ltd co
        -ltée; -limitée; -unltd; -ultd; -proprietary; proprietary ltd; -plc; public limited company; -clg; -dac
        designated activity company; -ulc
        unlimited company; company limited by guarantee; -cic; community interest company; -cyf; -cyfyngedig
        -teoranta; sarl; sa rl; eurl; -selarl; société à responsabilité limitée
        entreprise unipersonnelle à responsabilité limitée; sarlau; sarl au; -sagl; società a garanzia limitata
        srl; srls; srl semplificata; -srll; -srlp; società a responsabilità limitata
        società a responsabilità limitata semplificata
        -sl; -slu; -sll; -slne; -slp; sociedad limitada; sociedad limitada unipersonal; sociedad limitada profesional
        sociedad limitada laboral; sociedad de responsabilidad limitada; s de rl; s de rl de cv; s de rl mi
        spr de rl de cv
        societat limitada; lda; -limitada; unipessoal lda; sociedade por quotas; sociedade unipessoal por quotas
        ltda; ltda me; ltda epp; sociedade limitada; -eireli; -eirl; empresa individual de responsabilidad limitada
        -bv; -bvba; -sprl; besloten vennootschap; besloten vennootschap met beperkte aansprakelijkheid; bvba sprl
        sprl bvba; bv srl; srl bv; société privée à responsabilité limitée
        aps; anpartsselskab; anpartsselskabet; -ivs; iværksætterselskab; -smba; -ab; aktiebolag; aktiebolaget; -oy
        osakeyhtiö; oy ab; ab oy; aksjeselskap; aksjeselskapet; -ehf; einkahlutafélag
        -oü; osaühing; uab; uždaroji akcinė bendrovė; -mb; mažoji bendrija; -sia; sabiedrība ar ierobežotu atbildību
        spzoo; sp z oo; sp zoo; spz oo; spółka zoo; spółka z oo; spółka z ograniczoną odpowiedzialnością
        sro; s ro; spol s ro; spol sro; společnost s ručením omezeným; spoločnosť s ručením obmedzeným; kft
        korlátolt felelősségű társaság; societate cu răspundere limitată; -srld
        doo; jdoo; dooel; društvo s ograničenom odgovornošću; društvo sa ograničenom odgovornošću
        družba z omejeno odgovornostjo
        друштво са ограниченом одговорношћу; друштво со ограничена одговорност; -shpk
        shoqëri me përgjegjësi të kufizuar; eood; ood; дружество с ограничена отговорност
        еднолично дружество с ограничена отговорност; -odo
        ooo; общество с ограниченной ответственностью; obshchestvo s ogranichennoi otvetstvennostyu; -tov
        товариство з обмеженою відповідальністю; таварыства з абмежаванай адказнасцю;
        товарищество с ограниченной ответственностью; -mmc; məhdud məsuliyyətli cəmiyyəti; -shps
        -ε.π.ε.; -ι.κ.ε.; μον. ι.κ.ε.; μονοπρόσωπη ι.κ.ε.; μον. ε.π.ε.; μονοπρόσωπη ε.π.ε.
         εταιρεία περιορισμένης ευθύνης; εταιρία περιορισμένης ευθύνης
        ιδιωτική κεφαλαιουχική εταιρεία; ιδιωτική κεφαλαιουχική εταιρία
        ltd sti; ltdsti; limited şirketi; limited şti
        pty; pty ltd; pty limited; ptyltd; proprietary limited; pvt; pvt ltd; pvtltd; pte; pte ltd; pteltd; -opc
        soc ltd; -cc; close corporation; sdn bhd; sdnbhd; sendirian berhad; coltd; company limited
        tnhh; công ty tnhh; công ty tnhh mtv; tnhh mtv; công ty trách nhiệm hữu hạn; -wll; with limited liability
        -fze; -fzco; -fzc; -fzllc; fz llc; -dmcc; -gk; godo kaisha; godo gaisha; yugen kaisha; yugen gaisha; -yk
        yuhan hoesa; youxian gongsi; youxian zeren gongsi; 有限公司; 有限责任公司; 有限責任公司; 有限会社; 合同会社
        有; 合; 유한회사; 유한책임회사; 유; בעמ; בע מ; baam; شمم; ذمم; ذات مسؤولية محدودة; ذات المسؤولية المحدودة; จำกัด
        """,
    "stock": """
        -ag; aktiengesellschaft; -invag; reit ag; kommandit ag; kgaa; kommanditgesellschaft auf aktien
        -cokgaa; -se; societas europaea
        europäische gesellschaft; -sa; société anonyme; -sas; -sasu; société par actions simplifiée; -sca
        société en commandite par actions; société européenne; sa nv; nv sa; -nv; naamloze vennootschap
        -spa; società per azioni; -sapa; società in accomandita per azioni; -sau; sociedad anónima
        sociedad anónima unipersonal; sociedade anónima; sociedad por acciones simplificada; sociedad por acciones
        societat anònima; -sgps; sa de cv; sas de cv; -sapi; sapib de cv; -slm; sapi de cv; sab de cv
        sociedad anónima de capital variable; -sac; -saa
        sociedad anónima cerrada; sociedad anónima abierta
        -inc; -incorporated; -incorporée; -incorporation; -corp; benefit corporation; -corporation; -pjsc
        public joint stock company; private joint stock company
        joint stock company; -jsc; -ojsc; -cjsc; -pcl; public company limited
        -as; aktieselskab; aktieselskabet; akciová společnost; akciová spoločnosť; akc spol; anonim şirketi
        aktsiaselts
        akciju sabiedrība; akcinė bendrovė; -asa; allmennaksjeselskap; oyj; julkinen osakeyhtiö; -abp; -hf; hlutafélag
        spółka akcyjna; prosta spółka akcyjna; -psa; nyrt; zrt; részvénytársaság
        zártkörűen működő részvénytársaság
        nyilvánosan működő részvénytársaság; societate pe acțiuni; -dd; dioničko društvo; delniška družba
        -ad; -ead; акционерно дружество; еднолично акционерно дружество; акционарско друштво; akcionarsko društvo
        акционерско друштво; -sha; shoqëri aksionare; oao; zao; -pao; -nao; акционерное общество
        публичное акционерное общество; открытое акционерное общество; закрытое акционерное общество
        -prat; -zat; -adsic; приватне акціонерне товариство; публічне акціонерне товариство; акціонерне товариство
        -asc; -qsc
        -α.ε.; μονοπρόσωπη α.ε.; ανώνυμη εταιρεία; ανώνυμη εταιρία; -kk; kabushiki kaisha; kabushiki gaisha
        kabushikigaisha
        kabushikikaisha; jusik hoesa; chusik hoesa; gufen youxian gongsi; 株式会社; 株式會社; 株; 股份有限公司
        주식회사; 주; -tbk; berhad; -bhd; công ty cổ phần; -sae; -saog; שמע; شمع; شمخ; شركة مساهمة; มหาชน
        """,
    "partners": """
        -kg; cokg; kommanditgesellschaft; ohg; coohg; offene handelsgesellschaft; -og; offene gesellschaft; -keg
        gbr; gesbr; gesellschaft bürgerlichen rechts; partg; partgmbb; partg mbb; -mbb; partnerschaftsgesellschaft
        partnerschaftsgesellschaft mbb; kollektivgesellschaft; -ewiv; -geie; -eeig; -gie; -aie; -aeie
        -snc; société en nom collectif; -scs; société en commandite simple; -senc; -secs; -scsp; -sci; -scp; -scm
        société civile; société civile immobilière; -scea; -gaec; -sencrl
        società in nome collettivo; -sc; società in accomandita semplice; società semplice; -ss; -cb
        comunidad de bienes; sociedad civil; sociedad colectiva; sociedad en comandita; s en c; s en c por a
        s en c de cv
        -commva; comm va; -cva; -cvoa; -kommg; vof; vennootschap onder firma; -cv; commanditaire vennootschap
        -commv; maatschap; vof snc
        -is; interessentskab; -ks; kommanditselskab; -ps; partnerselskab; -hb; handelsbolag; -kb; kommanditbolag; -ky
        kommandiittiyhtiö; avoin yhtiö; kommandittselskap; -ans; ansvarlig selskap; -da; -slf
        -tü; täisühing; -uü; usaldusühing; -kub; -tub; sp k; spk; spółka komandytowa; sp j; spj; spółka jawna; -ska
        spółka komandytowo akcyjna; spółka cywilna; sp p; -spp; -sj; spółka partnerska; -vos
        veřejná obchodní společnost
        verejná obchodná spoločnosť; ver obch spol; kom spol; komanditní společnost; komanditná spoločnosť; -bt
        betéti társaság
        -kkt
        közkereseti társaság; -kd; -kdd; -kda; -dzzd; komanditno društvo; командитно дружество; -jtd
        javno trgovačko društvo; -od
        ортачко друштво; -sd; събирателно дружество; -dno; -ο.ε.; -ε.ε.; ομόρρυθμη εταιρεία; ομόρρυθμη εταιρία
        ετερόρρυθμη εταιρεία; ετερόρρυθμη εταιρία; kollektif şirketi; komandit şirketi; koll sti; kom sti; kollsti
        komsti
        llp; -lp; -lllp; limited partnership; limited liability partnership; limited liability limited partnership
        general partnership; -pllc
        合名会社; 合資会社; 합명회사; 합자회사
        """,
    "trader": """
        -ek; ekfm; ekfr; ekffr; e kfm; e kfr; e kffr; eingetragener kaufmann; eingetragene kauffrau; -eu
        eingetragenes einzelunternehmen;        einzelunternehmen; einzelunternehmer; einzelfirma; -kfm
        entreprise individuelle
        ditta individuale; impresa individuale; empresario individual; empresário individual; eenmanszaak
        enkeltmandsvirksomhed; enkeltpersonforetak; -enk; enskild firma; -tmi; toiminimi
        individuālais komersants
        -ik; individuali įmonė; egyéni vállalkozó; egyéni cég; -pfa; persoană fizică autorizată;
        întreprindere individuală; -osvč; samostojni podjetnik; -sp; -fop; фізична особа підприємець
        индивидуальный предприниматель
        едноличен търговец; sole trader; sole proprietor; sole proprietorship
        """,
    "cooperative": """
        -eg; -egen; eingetragene genossenschaft; -sce; soc coop; soc coop arl; soc coop a rl; società cooperativa
        società cooperativa a rl; società cooperativa a responsabilità limitata; -scarl; -scrl; scarl; s coop
        sociedad cooperativa; -scop; -scic; société coopérative; -cvba; coöperatieve vennootschap
        -scl; sc de rl de cv; -fmba; -bbl; -amba; andelsselskab; -anl;        -osk; osuuskunta; andelslag
        ekonomisk förening; ek för; -ekför
        samvirkeforetak; tulundusühistu; -tüh
        cooperative society; co operative society
        """,
    "association": """
        -ev; eingetragener verein; -vvag; versicherungsverein auf gegenseitigkeit; -asbl
        association sans but lucratif
        -vzw; vereniging zonder winstoogmerk; asbl vzw; vzw asbl; -aisbl; -mtü; mittetulundusühing; -onlus; -zs
        zapsaný spolek;        občianske združenie; asociación civil; автономная некоммерческая организация
        """,
    "foundation": """
        stiftung bürgerlichen rechts; stiftung des privaten rechts; charitable incorporated organisation
        """,
    "public": """
        körperschaft des öffentlichen rechts; anstalt des öffentlichen rechts; -kdör; -aör; -gup; -fgup; -mup
        государственное унитарное предприятие; федеральное государственное унитарное предприятие; státní podnik
        štátny podnik
        """,
}
"""Forms of a group, separated by `;` or a line."""

_KINDS = {
    "foundation": "stiftung stichting foundation fondation fondazione fundación fundação fundacja fundacija stiftelse"
    " stiftelsen nadace alapítvány säätiö fonden фонд vakfı yayasan sihtasutus privatstiftung",
    "association": "verein association associazione asociación associação vereniging förening föreningen foreningen"
    " stowarzyszenie spolek egyesület udruga asociația derneği yhdistys",
    "cooperative": "genossenschaft cooperative cooperativa coopérative coöperatie spółdzielnia družstvo szövetkezet"
    " zadruga кооператив koperasi kooperatifi",
}
_FILLERS = """
    co; company; cie; cia; compagnie; compañía; group; gruppe; groupe; grupo; gruppo; grupa; ec; & c; e c; y cia; e cia
    y compañía; & cia; haftungsbeschränkt; unipersonale; unipersonal; a socio unico; con socio unico; società benefit
    sti; şirketi
    sanayi ve ticaret; san ve tic; san tic; ve ticaret; ve tic; ticaret; publ; il; in liquidation; in liquidazione
    en liquidation; en liquidación; w likwidacji; v likvidaci; v likvidácii; in insolvenz; in administration
    in oprichting; 公司
    """
_LINKS = "and und et the + & ve og och firma fa gesellschaft شركة บริษัท"
_LETTERS = "e y u"
_BREAKS = ", ; ( ) [ ] |"

_LEADING = {
    "sia": "limited", "oü": "limited", "oy": "limited", "tov": "limited",
    "pt": "limited", "mtü": "association", "pao": "stock", "prat": "stock",
    "gup": "public", "fgup": "public", "mup": "public", "fop": "trader", "sci": "partners", "scea": "partners",
    "gaec": "partners", "asbl": "association", "vzw": "association", "sprl": "limited", "bvba": "limited",
}  # fmt: skip
"""Forms that stand before the name in their countries, unless another one stands behind it."""
_LEADING_CYRILLIC = {
    "ао": "stock", "ат": "stock", "ад": "stock", "пат": "stock", "нао": "stock", "тоо": "limited", "пп": "limited",
    "тдв": "limited", "сп": "limited", "ип": "trader", "чп": "trader", "ет": "trader", "пк": "cooperative",
    "ано": "association", "нко": "association",
}  # fmt: skip
"""In Cyrillic letters they are forms; in Latin ones, words and initials."""
_PERHAPS_LEADING = "as ab nv sa sas sc snc bv cv kk kb hb"
"""Forms before the name in some countries as well as words and initials (`AB Volvo`, `AS Roma`)."""


class Sign(IntEnum):
    """What a word says about those behind it."""

    BRANCH = 1
    """They are about a branch."""
    BRANCH_AFTER_FORM = 2
    """The same, where the name is over."""
    BRANCH_BEFORE = 3
    """The word before it is the branch's: `UK Branch`."""
    ALIAS = 4
    """Another name of the firm, or of its owner, or a former one."""
    ALIAS_AFTER_FORM = 5
    """The same, where the name is over."""
    CARE_OF = 6
    """A person, or another firm that takes the mail."""


_SIGNS = {
    Sign.BRANCH: """
        niederlassung; zweigniederlassung; zweigstelle; betriebsstätte; geschäftsstelle; succursale; sucursal; filial
        filiale; filialas; filiaal; filiāle; oddział; pobočka; bijkantoor; sivuliike; podružnica; ogranak; sucursala
        sucursală; филиал; клон; філія; υποκατάστημα; organizační složka; organizačná zložka; sede secondaria
        stabile organizzazione; établissement stable; permanent establishment; norskavdelad utenlandsk foretak
        """,
    Sign.BRANCH_AFTER_FORM: "nl; succ; suc; nuf; werk; standort; zweigwerk; agence",
    Sign.BRANCH_BEFORE: "branch; şubesi; fióktelepe; 支店; 分公司; 지점",
    Sign.ALIAS: """
        trading as; dba; doing business as; aka; also known as; handelnd unter; firmierend unter
        firmierend als; handelend onder de naam; nom commercial; nombre comercial; fka; formerly
        formerly known as; formerly trading as; previously known as; vormals; ehemals; anciennement; voorheen
        tidligere; tidigare; dawniej; inh; inhaber; inhaberin; geschäftsinhaber; titular; titolare
        """,
    Sign.ALIAS_AFTER_FORM: "ex; vorm; früher; già; previously; antes; prop; proprietor; owner; enseigne",
    Sign.CARE_OF: "careof; care of; z hd; zhd; z hdn; zu händen; attn; att; à l'attention de; tav; do rąk",
}
SLASHED = {
    "t/a": "trading as", "d/b/a": "dba", "a/k/a": "aka", "f/k/a": "fka", "h/o": "handelend onder de naam",
    "c/o": "careof",
}  # fmt: skip
"""Signs that are written with a slash, in words."""


def spelled(text: str) -> str:
    """Words of a name as they are compared: folded, `S.p.A.` and `SpA` alike, `rn` an `m`, `aa` (Danish `å`) an `a`."""
    bare = plain(text).replace(".", "").replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "")
    return bare.replace("rn", "m").replace("aa", "a")


def _entries(text: str) -> Iterator[str]:
    """The entries of a list, spelled; all at once, which is quick where a function starts."""
    return (entry for part in re.split("[;\n]", spelled(text)) if (entry := part.strip()))


def _meanings() -> Iterator[tuple[str, Meaning]]:
    for group, forms in _FORMS.items():
        sure, last = Meaning(Role.SURE, group), Meaning(Role.LAST, group)
        yield from ((form.removeprefix("-"), last if form[0] == "-" else sure) for form in _entries(forms))
    for group, kinds in _KINDS.items():
        yield from ((kind, Meaning(Role.KIND, group)) for kind in spelled(kinds).split())
    yield from ((filler, Meaning(Role.FILLER)) for filler in _entries(_FILLERS))
    for role, listed in ((Role.LINK, _LINKS), (Role.LETTER, _LETTERS), (Role.BREAK, _BREAKS)):
        yield from ((word, Meaning(role)) for word in spelled(listed).split())


# Of a word in two lists, the first one counts.
MEANINGS = dict(reversed(list(_meanings())))
"""What words and phrases mean in a name. Phrases have one space between their words."""
SIGNS = {text: sign for sign, signs in _SIGNS.items() for text in _entries(signs)}
"""What words and phrases say about those behind them."""
LEADING = {spelled(form): group for form, group in _LEADING.items()}
"""Forms that also stand before a name."""
LEADING_CYRILLIC = {spelled(form): group for form, group in _LEADING_CYRILLIC.items()}
"""The same, of names in Cyrillic letters."""
PERHAPS_LEADING = frozenset(_PERHAPS_LEADING.split())
"""Before a name, a form or a word of it."""


def _phrases() -> dict[str, tuple[tuple[str, ...], ...]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for text in (*MEANINGS, *SIGNS):
        first, *rest = text.split(" ")
        if rest:
            found.setdefault(first, []).append((first, *rest))
    return {first: tuple(sorted(phrases, key=len, reverse=True)) for first, phrases in found.items()}


PHRASES = _phrases()
"""By their first words, the phrases of several words, longest first."""
ATTACHED = re.compile(
    "|".join(
        sorted(
            (re.escape(text) for text in (*MEANINGS, *SIGNS) if text >= "\u0e00" and len(text) > 1),
            key=len,
            reverse=True,
        )
    )
)
"""Forms of East Asia, which are written without a space beside the name."""
