"""English and Portuguese sentences of our own, put together from phrases: the same ones whenever they are asked for."""

import itertools
import random

_ENGLISH = {
    "who": ["My sister", "The old teacher", "Our neighbour", "A young engineer", "The mayor of the town", "Nobody here",
            "The woman with the red umbrella", "Your brother", "The company", "An experienced doctor"],
    "did": ["bought two tickets", "forgot the keys", "wrote a long letter", "repaired the broken window",
            "found a small dog", "cooked dinner for everyone", "missed the last train", "sold the house",
            "explained the problem again", "read the whole report"],
    "when": ["yesterday evening", "in the early morning", "before the meeting started", "last summer",
             "while it was raining", "on the first of May", "after twenty years", "without saying a word",
             "because the weather was bad", "and then went home"],
}  # fmt: skip
_ENGLISH_FORMS = [
    "{who} {did} {when}.",
    "I heard that {lower} {did} {when}.",
    "Did you know that {lower} {did} {when}?",
    "{who} {did}, but I only learned about it {when}.",
    "They say {lower} {did} {when}, which surprised the whole village.",
]
_PORTUGUESE = {
    "who": ["A minha irmã", "O velho professor", "O nosso vizinho", "Uma jovem engenheira", "O presidente da câmara",
            "A mulher do guarda-chuva vermelho", "O teu irmão", "A empresa", "Um médico experiente", "A minha colega"],
    "did": ["comprou dois bilhetes", "esqueceu as chaves", "escreveu uma longa carta", "consertou a janela partida",
            "encontrou um cão pequeno", "preparou o jantar para todos", "perdeu o último comboio", "vendeu a casa",
            "explicou o problema outra vez", "leu o relatório inteiro"],
    "when": ["ontem à noite", "de manhã cedo", "antes de a reunião começar", "no verão passado", "enquanto chovia",
             "no primeiro de maio", "depois de vinte anos", "sem dizer uma palavra", "porque o tempo estava mau",
             "e depois foi para casa"],
}  # fmt: skip
_PORTUGUESE_FORMS = [
    "{who} {did} {when}.",
    "Ouvi dizer que {lower} {did} {when}.",
    "Sabias que {lower} {did} {when}?",
    "{who} {did}, mas só soube disso {when}.",
    "Dizem que {lower} {did} {when}, o que surpreendeu toda a aldeia.",
]


def sentences(language: str, count: int = 500, seed: int = 1) -> list[str]:
    """Different sentences in "en" or "pt"."""
    words, forms = (_ENGLISH, _ENGLISH_FORMS) if language == "en" else (_PORTUGUESE, _PORTUGUESE_FORMS)
    every = list(itertools.product(forms, words["who"], words["did"], words["when"]))
    chosen = random.Random(seed).sample(every, count)
    return [form.format(who=who, lower=who[0].lower() + who[1:], did=did, when=when) for form, who, did, when in chosen]
