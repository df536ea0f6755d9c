"""Which sentences decline to answer and say no more."""

import pytest

from plumbline.judging.text.checkable import abstains

_ABSTAINING_EN = (
    "I don't know.",
    "I don’t know the answer to that.",
    "I do not have enough information to answer this question.",
    "I'm sorry, but I cannot answer that question based on the provided context.",
    "Sorry, I couldn't find that in the documents.",
    "Unfortunately, the provided context does not mention the opening date.",
    "The passages do not contain this information.",
    "The context doesn't say who built the bridge.",
    "Based on the provided context, I cannot determine the year of construction.",
    "According to the documents, there is no information about his salary.",
    "There is not enough information to answer the question.",
    "There is insufficient context to say.",
    "No information is available in the provided passages.",
    "No relevant information was found.",
    "No answer found.",
    "I am not sure.",
    "I'm unable to answer this question.",
    "We were not able to find the answer.",
    "It is not possible to determine this from the text.",
    "It's impossible to say from the given context.",
    "This question cannot be answered with the given documents.",
    "The retrieved documents do not provide any details about the price.",
    "Unknown.",
    "N/A",
    "Not mentioned.",
    "Unanswerable",
    "I can't answer that.",
    "The given sources did not specify a date.",
    "I'm afraid I don't have access to that information.",
    "The information provided does not include the name of the architect.",
    "It is impossible to definitively answer this question since we do not know who built it.",
    "It's impossible to definitively say which is older, because the passages do not give any dates.",
    "i'm not sure if you have a child who lost a tooth.",
    "well i ' m not sure if you have a child who lost a tooth .",
    "i m not sure if the school is old",
    "I do n't know .",
    "I cannot answer this, as the price is not mentioned in the documents.",
    "I can't say for sure because no information is provided.",
    "Their ages are not given in the context.",
    "The price is not mentioned.",
    "The exact price of the old dam cannot be determined from the given context.",
    "However, I could not find any information on the number of beds.",
    "Not mentioned in the provided documents.",
    "Not specified in document 2",
)
_ABSTAINING_ZH = (
    "我不知道。",
    "不知道。",
    "抱歉，我不知道答案。",
    "对不起，我无法回答这个问题。",
    "很抱歉，根据现有资料无法回答。",
    "根据提供的上下文，无法确定建造年份。",
    "根据已有信息，我无法判断他的年龄。",
    "上下文中没有提到这座桥的建造者。",
    "文中未提及开馆时间。",
    "资料中并未说明价格。",
    "提供的文档没有包含相关信息。",
    "没有找到相关信息。",
    "未找到答案。",
    "我不确定。",
    "我不太清楚。",
    "现有资料不足以回答该问题。",
    "信息不足，无法得出结论。",
    "缺乏足够的信息来回答。",
    "从上述文本中无法得知作者是谁。",
    "检索结果中没有相关内容。",
    "非常遗憾，目前的资料未提供该数据。",
    "这些段落没有给出答案。",
    "未知。",
    "无法从给出的材料中得知具体日期。",
    "文章没有明确说明原因。",
    "暂时无法提供答案。",
    "参考资料没有涉及这一问题。",
    "至于灯塔的高度，资料里没有说明。",
    "由于信息不足，无法回答。",
    "我不知道，因为资料没有提到。",
    "不清楚。",
)
_ASSERTING_EN = (
    "The bridge was built in 1932.",
    "Paris is the capital of France.",
    "I don't know who built it, but it opened in 1932.",
    "The context does not give a date, however the bridge is old.",
    "Although the passage does not mention it, the bridge was built in 1932.",
    "No.",
    "Yes, it is safe.",
    "No bridge crosses the river.",
    "The keeper said that he does not know the way.",
    "Nobody knows who lit the lamp.",
    "The author is unknown.",
    "Unknown attackers burned the mill in 1843.",
    "The cause of the fire is not mentioned in the will.",
    "The warranty does not cover water damage.",
    "Sorry is the hardest word.",
    "The answer is 42.",
    "Not a single lamp was lit.",
    "The court could not determine the owner of the land.",
    "Information about prices is given in table 3.",
    "The documents contain the names of all keepers.",
    "According to the report, the bridge was closed to cars in 2008.",
    "Unfortunately, the bridge collapsed in 1940.",
    "I know the answer: it is Keld.",
    "No information system was in use before 1990.",
    "The question was answered by the mayor.",
    "The context says that the lamp was lit at dusk.",
    "Based on the context, the bridge has four lanes.",
)
_ASSERTING_ZH = (
    "这座桥建于1932年。",
    "北京是中国的首都。",
    "资料没有给出日期，但这座桥很古老。",
    "文中未提及建造者，不过桥于1932年通车。",
    "根据现有资料，该桥于1932年建成。",
    "上下文提到桥有四条车道。",
    "没有人受伤。",
    "不是。",
    "没有。",
    "该药物不能用于儿童。",
    "法院无法确定土地的所有者。",
    "未来五年将新建三座桥。",
    "公司未提供担保。",
    "他不知道灯塔在哪里。",
    "无人机可以飞行两小时。",
    "不锈钢含有铬。",
    "没有一盏灯是亮的。",
    "根据资料，公司没有债务。",
    "作者的身份至今未知，书却流传很广。",
    "信息技术改变了城市。",
    "目前该桥禁止汽车通行。",
    "抱歉的是桥在1940年倒塌了。",
    "提供的文档显示价格为五元。",
    "知道答案的人只有市长。",
    "中国的资料馆成立于1958年。",
    "很多人不了解这段历史。",
)
# What the answer asserts hides behind the words of an abstention.
_ASSERTING_BESIDE = (
    "I'm not sure, the capital is Paris.",
    "I don't know, it might have been built in 1932.",
    "The context does not mention the year; the bridge was built in 1932.",
    "The passage does not say who built it, and the mayor opened it in 1932.",
    "我不确定，首都是北京。",
    "资料没有提到年份，该桥建于1932年。",
    "I don't know the exact day, because the bridge was blown up by its drunken engineer.",
    "I don't know the exact day because the bridge was blown up by its drunken engineer.",
    "I cannot answer this, since the keeper was killed.",
    "I'm not sure, this bridge killed people.",
    "我不知道确切日期，因为桥被喝醉的工程师炸毁了。",
)
# Plain assertions that begin like an abstention.
_ASSERTING_LIKE = (
    "There is no evidence that vaccines cause autism.",
    "There was no answer from the tower when the plane called.",
    "It is impossible to tell the twins apart.",
    "We do not have any rooms with a sea view.",
    "We did not find a significant difference between the groups.",
    "不足五人参加了会议。",
    "不确定性原理由海森堡提出。",
    "不了解历史的人会重蹈覆辙。",
    "不能提供身份证的旅客不得登机。",
    "无法找到工作的年轻人越来越多。",
)


@pytest.mark.parametrize("sentence", _ABSTAINING_EN)
def test_an_english_sentence_that_declines_to_answer_abstains(sentence: str) -> None:
    assert abstains(sentence)


@pytest.mark.parametrize("sentence", _ABSTAINING_ZH)
def test_a_chinese_sentence_that_declines_to_answer_abstains(sentence: str) -> None:
    assert abstains(sentence)


@pytest.mark.parametrize("sentence", _ASSERTING_EN)
def test_an_english_sentence_that_asserts_something_does_not_abstain(sentence: str) -> None:
    assert not abstains(sentence)


@pytest.mark.parametrize("sentence", _ASSERTING_ZH)
def test_a_chinese_sentence_that_asserts_something_does_not_abstain(sentence: str) -> None:
    assert not abstains(sentence)


@pytest.mark.parametrize("sentence", _ASSERTING_BESIDE)
def test_a_sentence_that_abstains_and_then_asserts_does_not_abstain(sentence: str) -> None:
    assert not abstains(sentence)


@pytest.mark.parametrize("sentence", _ASSERTING_LIKE)
def test_a_sentence_that_only_begins_like_an_abstention_does_not_abstain(sentence: str) -> None:
    assert not abstains(sentence)


@pytest.mark.parametrize("sentence", ["", " ", "。", "😀"])
def test_nothing_said_is_no_abstention(sentence: str) -> None:
    assert not abstains(sentence)


def test_a_long_sentence_asserts_something_beside_its_abstention() -> None:
    assert not abstains("The context does not mention " + "the old bridge " * 20)
