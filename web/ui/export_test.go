package ui

// Visible exports escapeControls.
var Visible = escapeControls
