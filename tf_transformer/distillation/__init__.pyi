from ._comparison import Comparison as Comparison
from ._comparison import compare as compare
from ._distill import Distillation as Distillation
from ._distill import Teacher as Teacher
from ._on_beam import BeamTeacher as BeamTeacher
from ._translation import PART_PAIRS as PART_PAIRS
from ._translation import TeacherTranslations as TeacherTranslations

__all__ = ["PART_PAIRS", "BeamTeacher", "Comparison", "Distillation", "Teacher", "TeacherTranslations", "compare"]
