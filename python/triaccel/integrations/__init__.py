"""Tri-Accel inside other training libraries; each module needs the library it is named after."""
