"""Completes measured runs that leave out a fact which a public recipe states
(docs/accuracy/recipes.json).

Each element of the file has: `source`, `cases` (a regular expression that must match a whole
case_id), `set` (columns of the run that are blank), `case` (merged into the case that score.to_case
makes of it), `recipe` (the source of the facts, and what it says), `confidence`. Only runs that
score.py drops are completed, and no fact that a run states is replaced, except that the name of a
model and the notes may be, because score.py drops some models by name.
"""
import copy
import json
import re

RECIPES = "docs/accuracy/recipes.json"


class Completed:
    """The completed runs: items and answers like those of the exam; used: the recipes that
    completed a run."""

    def __init__(self, exam, args):
        self.items, self.used = [], []
        with open(RECIPES) as file:
            recipes = json.load(file)
        sources = {recipe["source"] for recipe in recipes}
        for item in exam.score.load(args.data, args.only):
            if item["case"] or item["source"] not in sources:
                continue
            recipe = recipe_of(item, recipes)
            case = complete(exam.score, item, recipe) if recipe else None
            if case:
                self.items.append({**item, "case": case})
                if recipe not in self.used:
                    self.used.append(recipe)
        self.answers = {}
        if self.items:
            self.answers = exam.score.evaluate(args.bin, [item["case"] for item in self.items])[0]


def recipe_of(item, recipes):
    found = [recipe for recipe in recipes if recipe["source"] == item["source"]
             and re.fullmatch(recipe["cases"], item["row"]["case_id"])]
    if len(found) > 1:
        raise SystemExit(f"{RECIPES}: two recipes for {item['row']['case_id']}")
    return found[0] if found else None


def complete(score, item, recipe):
    row = dict(item["row"])
    for key, value in recipe["set"].items():
        stated = (row.get(key) or "").strip()
        if stated not in ("", "recipe not stated", value) and key not in ("model", "notes"):
            raise SystemExit(f"{RECIPES}: {row['case_id']} states {key} itself")
        row[key] = value
    case = score.to_case(row, item["source"])
    return merged(case, recipe.get("case", {})) if case else None


def merged(case, patch):
    case = copy.deepcopy(case)
    for key, value in patch.items():
        case[key] = merged(case[key], value) if isinstance(value, dict) and isinstance(case.get(key), dict) else value
    return case
