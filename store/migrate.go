package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// versionTable is qualified because tern otherwise looks through the search path.
const versionTable = "public.schema_version"

// migrateUp brings the schema to this version. tern holds an advisory lock meanwhile, so that daemons starting at
// the same time wait for one another. A standby of a newer version migrates under a running older leader: a
// migration must therefore leave what the previous version reads and writes in place.
func migrateUp(ctx context.Context, conn *pgx.Conn) error {
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return fmt.Errorf("prepare the schema: %w", err)
	}
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return fmt.Errorf("prepare the schema: %w", err)
	}
	if err := m.LoadMigrations(files); err != nil {
		return fmt.Errorf("prepare the schema: %w", err)
	}
	have, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if known := int32(len(m.Migrations)); have > known {
		return fmt.Errorf("the database has schema version %d, but this batchd knows only up to %d: "+
			"start the batchd that last used it, or a newer one", have, known)
	}
	if err := m.Migrate(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	return nil
}
