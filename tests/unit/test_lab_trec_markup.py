"""TREC's elements, XML and SGML: what each form gives, and what is refused."""

from xml.etree import ElementTree  # the oracle of well-formed files, made by this test
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.extras.lab.corpora.trec_xml import Element, read_elements
from plumbline.ground.errors import InvalidInput

_KNOWN = {"docno", "title", "text", "num", "desc"}
_WORDS = st.text(st.sampled_from("ab <>&;'\"\n-]风é"), max_size=20)


def elements(text: str, tag: str = "doc") -> list[Element]:
    """The elements of a text called f.xml."""
    return list(read_elements(text, tag, _KNOWN, name="f.xml"))


def fields(text: str) -> dict[str, str]:
    """The fields of the one document in a text."""
    (element,) = elements(f"<DOC>{text}</DOC>")
    return element.fields


def test_documents_need_no_root_and_know_their_lines() -> None:
    assert elements("<doc>\n<docno> 7 </docno>\n</doc>\n\n<DOC><DocNo>8</docno></DOC>") == [
        Element(1, {"docno": "7"}),
        Element(5, {"docno": "8"}),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<text>AT&T, R&D; x<y and 1 < 2 > 0 & more</text>", "AT&T, R&D; x<y and 1 < 2 > 0 & more"),
        ("<text>x <y and z> w</text>", "x <y and z> w"),
        ("<text>AT&amp;T &lt;b&gt; &#233; &#x98ce; &eacute; &hyph; &copy</text>", "AT&T <b> é 风 é &hyph; &copy"),
        ("<text>a <b>bold</b>er <F P=104>word</F> <i class='x'>y</i></text>", "a bolder word y"),
        ("<text>one<p>two</p>three<br/>four</text>", "one\ntwo\nthree\n\nfour"),
        ("<text><![CDATA[a <b> &amp; c]]> &amp; <!-- <text> -->d</text>", "a <b> &amp; c & d"),
        ("<text>one</text> <text>two</text>", "one\ntwo"),
        ("<text/>", ""),
        ("<text></text>", ""),
        ("<text>never closed <p> in a paragraph", "never closed \n in a paragraph"),
    ],
)
def test_text_is_kept_and_tags_are_not(text: str, found: str) -> None:
    assert fields(text) == {"text": found}


def test_fields_without_end_tags_end_where_the_next_known_one_begins() -> None:
    topic = "<top>\n<num> Number: 301\n<title> Wings\n<desc> Description:\nWhich <i>wings</i>?\n</top>"

    (element,) = elements(topic, "top")

    assert element.fields == {"num": "Number: 301", "title": "Wings", "desc": "Description:\nWhich wings?"}


def test_a_field_with_an_end_tag_takes_known_tags_for_markup() -> None:
    assert fields("<text>see <title>Wings</title> there</text>") == {"text": "see Wings there"}


def test_text_outside_of_all_fields_is_not_lost() -> None:
    assert fields("<docno>7</docno> bare words ") == {"docno": "7", "": "bare words"}


def test_elements_may_all_go_without_an_end_tag() -> None:
    assert [each.fields for each in elements("<doc><docno>1<text>one\n<doc><docno>2<text>two")] == [
        {"docno": "1", "text": "one"},
        {"docno": "2", "text": "two"},
    ]


def test_prologues_are_passed_over() -> None:
    text = "<?xml version='1.0' encoding='utf-8'?>\n<!DOCTYPE root SYSTEM 'x.dtd'>\n<root><doc>a</doc></root>"

    assert elements(text) == [Element(3, {"": "a"})]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<doc><docno>1</docno></doc>\n<doc><docno>2", "f.xml:2: this <doc> is never closed"),
        ("nothing here", "f.xml: holds no <doc>"),
        ("<doc>\n<!-- a", "f.xml:2: <!-- is never closed"),
        ("<doc><![CDATA[ a</doc>", "f.xml:1: <![CDATA[ is never closed"),
        ('<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><doc>&b;</doc>', "f.xml:1: the document type declares"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        elements(text)

    assert str(raised.value).startswith(said)


@given(st.lists(st.tuples(_WORDS, _WORDS, _WORDS), min_size=1, max_size=4))
def test_well_formed_files_read_as_an_xml_parser_reads_them(rows: list[tuple[str, str, str]]) -> None:
    body = "".join(
        f"<doc><docno>{escape(a)}</docno><title>{escape(b)}</title><text>{escape(c)} <i>{escape(a)}</i></text></doc>"
        for a, b, c in rows
    )
    oracle = [
        {child.tag: "".join(child.itertext()).strip() for child in each}
        for each in ElementTree.fromstring(f"<root>{body}</root>")  # noqa: S314  # made above
    ]

    assert [each.fields for each in elements(f"<root>{body}</root>")] == oracle


@given(
    st.lists(
        st.sampled_from(["<doc>", "</doc>", "<text>", "</text>", "<", ">", "&", "x ", "a=", '"', "/", "<a b=c>", "\n"])
    )
)
def test_any_soup_of_tags_is_read_or_refused(soup: list[str]) -> None:
    try:
        found = elements("".join(soup))
    except InvalidInput:
        return
    assert found
