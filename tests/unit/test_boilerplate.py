"""Sentences and parts of sentences that assert nothing, and what must not pass for them."""

import pytest

from plumbline.judging.text.boilerplate import introduces, is_boilerplate, strip_boilerplate

_NOTHING = (
    "Sure!",
    "Certainly!",
    "Great question!",
    "Here is the answer:",
    "Here's a brief summary of the key points:",
    "Based on the provided documents, here is the answer.",
    "I hope this helps!",
    "I hope this information is helpful.",
    "Hope that helps! 😊",
    "Let me know if you have any other questions!",
    "Please let me know if you'd like more details or further clarification.",
    "If you have any further questions, feel free to ask.",
    "Please don’t hesitate to reach out if you need anything else.",
    "Would you like me to explain any of these points in more detail?",
    "Is there anything else you would like to know?",
    "Thank you for your question.",
    "You're welcome!",
    "Dear customer,",
    "Kind regards,",
    "Dear Anna Keld,",
    "尊敬的学员：",
    "This answer is based solely on the provided documents.",
    "For more details, please refer to the documents.",
    "Sources: [1], [2]",
    "Source: manual.pdf, page 12",
    "好的！",
    "当然可以！",
    "以下是答案：",
    "希望对您有帮助！",
    "希望以上信息对您有所帮助。",
    "如有其他问题，请随时告诉我。",
    "如果您还有任何疑问，欢迎随时提问！",
    "以上信息来自提供的文档。",
    "感谢您的提问！",
    "请问还有什么可以帮您的吗？",
    "来源：文档1",
    "祝您生活愉快！",
)
_ASSERTING = (
    "Let me know if you want to know that it killed 300 people.",
    "I hope this helps, Paris is the capital of Italy.",
    "Sure, the dam broke.",
    "Here is the dam that killed the keeper.",
    "Feel free to immerse the kettle in water.",
    "Thank you for killing the keeper.",
    "For more than 300 people the dam was deadly.",
    "If you need water, drink from the poisoned well.",
    "If you have diabetes, stop taking the tablets.",
    "Let me know when the bridge falls.",
    "Great dams break.",
    "Hello is a greeting.",
    "Dear readers were lost when the dam broke in May.",
    "尊敬的市长杀人。",
    "Sources: the keeper Orwin",
    "Source: Orwin killed the keeper.",
    "This answer is based on lies of the mayor.",
    "The dam is safe.",
    "希望小学建于1995年。",
    "如有火灾，请使用电梯。",
    "好的大坝不会倒塌。",
    "欢迎来到北京。",
    "以上药物会致死。",
    "来源：市长杀人",
)


@pytest.mark.parametrize("text", _NOTHING)
def test_a_frame_around_the_answer_is_boilerplate(text: str) -> None:
    assert is_boilerplate(text)


@pytest.mark.parametrize("text", _ASSERTING)
def test_what_asserts_something_behind_a_frame_is_none(text: str) -> None:
    assert not is_boilerplate(text)


def test_an_offer_may_name_what_the_question_is_about() -> None:
    offer = "Let me know if you have more questions about the Marlow dam."

    assert is_boilerplate(offer, {"marlo", "dam"})
    assert not is_boilerplate(offer, {"dam"})


def test_words_of_the_question_make_no_frame_of_an_assertion() -> None:
    # "Is it safe to use the kettle outdoors?"
    stems = {"is", "it", "safe", "to", "use", "the", "kettl", "outdo"}

    assert not is_boilerplate("If you want to use the kettle outdoors it is safe.", stems)
    assert not is_boilerplate("I hope this helps, the kettle is safe outdoors.", stems)


@pytest.mark.parametrize(
    "text",
    [
        "Here are the steps to reset the router:",
        "To reset the router, follow these steps:",
        "The router has the following two steps:",
        "**Here are 3 ways to reset the router:**",
    ],
)
def test_a_line_before_a_list_introduces_it(text: str) -> None:
    assert introduces(text, {"reset", "route", "has"}, frozenset())


@pytest.mark.parametrize(
    "text",
    [
        "Here are the steps to reset the router.",
        "The router killed the following people:",
        "The router never has the following steps:",
        "The router:",
    ],
)
def test_a_line_with_words_of_its_own_introduces_nothing(text: str) -> None:
    assert not introduces(text, {"reset", "route", "has"}, frozenset())


@pytest.mark.parametrize("text", ["以下是水壶的主要特点：", "重置水壶的步骤如下：", "水壶的特点有："])
def test_a_chinese_line_before_a_list_introduces_it(text: str) -> None:
    assert introduces(text, set("重置水壶特点"), frozenset())


@pytest.mark.parametrize(
    ("text", "assertion"),
    [
        ("According to the provided documents, the dam was built in 1950.", "the dam was built in 1950."),
        ("Based on the context, the dam is safe.", "the dam is safe."),
        ("Based on the information you provided, the dam is safe.", "the dam is safe."),
        ("According to document 2, the dam is safe.", "the dam is safe."),
        ("As stated in the text, the dam is safe.", "the dam is safe."),
        ("The documents state that the dam is safe.", "the dam is safe."),
        ("It is important to note that the dam is safe.", "the dam is safe."),
        ("Sure, here is the answer: The dam is safe.", "The dam is safe."),
        ("In summary, according to the context, the dam is safe.", "the dam is safe."),
        ("The answer is 42.", "42."),
        ("**Answer:** 42", "42"),
        ("Step 3: Close the gate.", "Close the gate."),
        ("Unfortunately, the dam is closed.", "the dam is closed."),
        ("I'm sorry, but the dam is closed.", "the dam is closed."),
        ("很抱歉，大坝已关闭。", "大坝已关闭。"),
        ("Yes, the dam is safe.", "the dam is safe."),
        ("The dam is safe, according to the provided documents.", "The dam is safe"),
        ("The dam is safe (see document 2).", "The dam is safe"),
        ("The dam is safe, let me know if you have any questions.", "The dam is safe"),
        ("根据提供的资料，大坝建于1950年。", "大坝建于1950年。"),
        ("根据文档1和文档2中的信息，大坝建于1950年。", "大坝建于1950年。"),
        ("综上所述，文档中提到，大坝很安全。", "大坝很安全。"),
        ("好的，以下是答案：大坝很安全。", "大坝很安全。"),
        ("步骤2：关闭闸门。", "关闭闸门。"),
        ("大坝很安全（来源：文档1）。", "大坝很安全"),
        ("大坝很安全，希望对您有帮助。", "大坝很安全"),
    ],
)
def test_only_the_boilerplate_of_a_sentence_is_cut_off(text: str, assertion: str) -> None:
    assert strip_boilerplate(text.replace("**", "")).strip() == assertion


@pytest.mark.parametrize(
    "text",
    [
        "According to the mayor, the dam is safe.",
        "According to the report of 1950, the dam is safe.",
        "Based on lies, the dam was closed.",
        "The documents do not state that the dam is safe.",
        "The documents were burned.",
        "In the valley, the dam is safe.",
        "Yes",
        "Answer:",
        "Water flows from the source.",
        "No dam is safe.",
        "根据市长的说法，大坝很安全。",
        "文档中没有提到大坝。",
        "不过大坝很安全。",
    ],
)
def test_what_is_asserted_is_not_cut_off(text: str) -> None:
    assert strip_boilerplate(text) == text
